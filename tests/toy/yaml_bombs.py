"""Short YAML texts that stand for billions of values."""

LEVELS = "\n".join([f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(12)])
BOMB = f"a0: &a0 x\n{LEVELS}\n"
MERGED = "a0: &a0 {x: 1}\n" + "\n".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}" for n in range(12))

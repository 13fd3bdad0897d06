"""The sandbox: run programs that a policy wrote, which can hurt nothing and earn nothing that they did not work for.

`plat_envs.sandbox.sandbox.Sandbox` is the door. The program never holds an expected output, and no verdict is read from
it: the parent reads its output and compares (`compare`). What a box stops depends on its level (`levels`), which is
tried with hostile programs before its first use (`probe`).
"""

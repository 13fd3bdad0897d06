"""A toy paper reproduced with plat: can hill climbing learn to bisect?"""

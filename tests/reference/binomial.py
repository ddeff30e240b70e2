"""Heads among fair coins: bit by bit for few, for many by rejection (Hoermann 1993, BTRS) with the plain chances."""

from __future__ import annotations

import math

from reference.splitmix import random_bits, random_share

MAX_COIN_TOSSES = 512


def log_chance(n, k):
    """Logarithm of n! / (k! (n - k)!) but for a constant, from Stirling's series."""
    x = (2 * k - n) / n
    deviance = sum(x ** (2 * i) / (i * (2 * i - 1)) for i in range(1, 60))
    rest = sum((1 / 12 - 1 / (360 * m * m)) / m for m in (k, n - k))
    return -0.5 * n * deviance - 0.5 * math.log1p(-x * x) - rest


def heads(seed, n):
    """How many of n coins show heads."""
    if n <= MAX_COIN_TOSSES:
        words = [random_bits(seed, word) for word in range(-(-n // 64))]
        if n % 64:
            words[-1] >>= 64 - n % 64
        return sum(word.bit_count() for word in words)
    sd = 0.5 * math.sqrt(n)
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * 0.5
    counter = 0
    while True:
        u, v = random_share(seed, counter) - 0.5, random_share(seed, counter + 1)
        counter += 2
        edge = 0.5 - abs(u)
        if edge == 0:
            continue
        step = math.floor((2 * a / edge + b) * u + (0.5 * n - n // 2 + 0.5))
        if abs(step) > n / 4:
            continue
        k = n // 2 + step
        ratio = v * (2.83 + 5.1 / b) * sd / (a / edge**2 + b)
        is_sure = edge >= 0.07 and v <= 0.92 - 4.2 / b
        if is_sure or ratio == 0 or math.log(ratio) <= log_chance(n, k) - log_chance(n, n // 2):
            return k

"""Functions that tests send to other processes, which import them by name."""

import os

import numpy as np


def add_process(part, base):
    return part + base, os.getpid()


def count_positive(rows):
    return np.array([len(rows), *(rows > 0).sum(axis=0)])


def count_above(rows, bound):
    return np.array([(rows > bound).sum()])

"""Engines on a Ray cluster, where replicas of models compute, and several page processes behind one proxy."""

"""Ways to compute the statistics: `dense` is the definition, `tiled` the same in memory linear in n."""

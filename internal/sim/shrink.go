package sim

// Shrink makes a failing run smaller as long as it fails: fewer clients, fewer
// operations, fewer kinds of faults, no jobs, and in the end fewer events. It
// plays at most that many runs, and returns the smallest that failed.
func Shrink(cfg Config, runs int) (Config, Result) {
	best := Run(cfg)
	for smaller := true; smaller && runs > 0; {
		smaller = false
		for _, try := range smallerThan(cfg, best.Events) {
			if runs--; runs < 0 {
				break
			}
			if r := Run(try); r.Err != nil {
				cfg, best, smaller = try, r, true
				break
			}
		}
	}
	return cfg, best
}

// smallerThan are runs to try, those that leave out most first.
func smallerThan(c Config, events int) (list []Config) {
	add := func(change func(*Config)) {
		next := c
		change(&next)
		list = append(list, next)
	}
	if c.Clients > 1 {
		add(func(n *Config) { n.Clients /= 2 })
		add(func(n *Config) { n.Clients-- })
	}
	if c.Ops > 4 {
		add(func(n *Config) { n.Ops /= 2 })
	}
	for f := Dropped; f <= lastFault; f <<= 1 {
		if c.Faults&f != 0 && f != c.Aim.Fault {
			add(func(n *Config) { n.Faults &^= f })
		}
	}
	if c.Jobs {
		add(func(n *Config) { n.Jobs = false })
	}
	for _, part := range []int{2, 4, 8} {
		limit := c.Events
		if limit == 0 || limit > events {
			limit = events
		}
		if cut := limit - limit/part; cut > 50 && cut < limit {
			add(func(n *Config) { n.Events = cut })
		}
	}
	return list
}

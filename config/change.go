package config

import "slices"

// Changes says what differs between two sets of settings.
type Changes struct {
	// Live are the keys that a running node takes over, Restart those that it
	// was started with and keeps. Both are in the order of the help.
	Live, Restart []string
}

// None reports whether nothing differs.
func (c Changes) None() bool { return len(c.Live)+len(c.Restart) == 0 }

// Since says what differs from the settings before. Where a value was written
// does not count.
func (c *Config) Since(before *Config) Changes {
	var d Changes
	for _, s := range settings() {
		switch {
		case s.bind(c).String() == s.bind(before).String():
		case s.live:
			d.Live = append(d.Live, s.name)
		default:
			d.Restart = append(d.Restart, s.name)
		}
	}
	if !slices.EqualFunc(c.Routes, before.Routes, sameRoute) {
		d.Live = append(d.Live, routesKey)
	}
	return d
}

func sameRoute(a, b Route) bool { return a.Prefix == b.Prefix && slices.Equal(a.Keys, b.Keys) }

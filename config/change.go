package config

import "slices"

// Changes contains the differences between two Configs.
type Changes struct {
	// Live contains the settings that a running node applies, and Restart the settings that require a
	// restart. Both are in the order of the help.
	Live, Restart []string
}

// None reports whether there are no differences.
func (c Changes) None() bool { return len(c.Live)+len(c.Restart) == 0 }

// Since returns the differences from the settings before. It ignores the origins of values.
func (c *Config) Since(before *Config) Changes {
	var d Changes
	for _, s := range settings() {
		switch {
		case s.bind(c).String() == s.bind(before).String():
		case s.reloadable:
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

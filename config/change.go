package config

import "slices"

// Changes contains the differences between two Configs.
type Changes struct {
	// Live contains the settings that a running node applies, and Restart the settings that require a
	// restart. Both are in the order of the help.
	Live, Restart []string
}

// IsEmpty reports whether there are no differences.
func (c Changes) IsEmpty() bool { return len(c.Live)+len(c.Restart) == 0 }

// ChangesSince returns the differences from the settings before. It ignores the origins of values.
func (c *Config) ChangesSince(before *Config) Changes {
	var changes Changes
	for _, row := range settings() {
		switch {
		case row.valueOf(c).String() == row.valueOf(before).String():
		case row.reloadable:
			changes.Live = append(changes.Live, row.name)
		default:
			changes.Restart = append(changes.Restart, row.name)
		}
	}
	if !slices.EqualFunc(c.Routes, before.Routes, sameRoute) {
		changes.Live = append(changes.Live, routesKey)
	}
	if !c.Headers.Equal(&before.Headers) {
		changes.Live = append(changes.Live, headersKey)
	}
	changes.addServiceChanges(c, before)
	return changes
}

func sameRoute(a, b Route) bool {
	return a.Prefix == b.Prefix && slices.Equal(a.Keys, b.Keys) && a.KeyLimit == b.KeyLimit && a.FirstByteTimeout == b.FirstByteTimeout && a.UpstreamIdleTimeout == b.UpstreamIdleTimeout && a.TotalTimeout == b.TotalTimeout && a.Headers.Equal(&b.Headers)
}

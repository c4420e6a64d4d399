package apphealth

import "time"

// Settings determines how often the app is checked, and how many results change its health.
type Settings struct {
	// Interval is the time between the starts of two checks. It varies by a tenth, so that the nodes do
	// not query a shared dependency of their apps at the same time. Timeout bounds one check.
	Interval, Timeout time.Duration
	// Fall is the number of failed checks in a row that make the app unhealthy. Rise is the number of
	// good checks in a row that make it healthy again.
	Fall, Rise int
	// Hold is how long an app that refuses connections stays healthy, because it may be restarting. The checker
	// grants this time no more than once per holdEvery. Zero means that Fall also applies to such an app.
	Hold time.Duration
}

// DefaultSettings returns the defaults of the command-line flags.
func DefaultSettings() Settings {
	return Settings{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second, Fall: 3, Rise: 1}
}

package ack

// maxFlaps bounds AppHealth.FlapCount. The flap pause reaches its maximum far below this.
const maxFlaps = 1000

// AppHealth is the report of a node about the health checks of its app, in addition to whether
// the app is unhealthy. The zero value is an app whose last check succeeded.
type AppHealth struct {
	// Failing is set if the last check failed. Refused is set if it failed because the connection was refused.
	Failing, Refused bool
	// Starting is set if no check of this process has succeeded yet.
	Starting bool
	// FlapCount counts how often the app has become unhealthy, each time within 10 minutes of the previous time. It
	// is reset to 0 after 10 minutes, and capped at 1000.
	FlapCount uint32
}

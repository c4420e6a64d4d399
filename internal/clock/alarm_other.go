//go:build !linux

package clock

// newKernelAlarm returns nil: there is no timerfd.
func newKernelAlarm() alarm { return nil }

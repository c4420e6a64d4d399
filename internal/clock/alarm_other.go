//go:build !linux

package clock

// newKernelAlarm returns none.
func newKernelAlarm() alarm { return nil }

package clock

import "time"

// virtual reads the clock of the runtime for both variants.
type virtual struct {
	origin time.Time
}

var _ Clock = (*virtual)(nil)

func (v *virtual) Now() time.Duration     { return time.Since(v.origin) }
func (v *virtual) Precise() time.Duration { return time.Since(v.origin) }

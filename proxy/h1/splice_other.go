//go:build !linux

package h1

// pipes exists only where there is splice(2).
type pipes struct{}

// DisableSplice has no effect without splice(2).
func (p *Buffers) DisableSplice() {}

// splice leaves everything to be copied.
func (*Writer) splice(*Body) (n int64, rerr, werr error) { return 0, nil, nil }

func (*Writer) splices(*Body) bool { return false }

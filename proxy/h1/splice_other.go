//go:build !linux

package h1

// pipes is empty on systems without splice(2).
type pipes struct{}

// DisableSplice has no effect without splice(2).
func (p *Buffers) DisableSplice() {}

// splice does nothing, so Copy copies the whole body.
func (*Writer) splice(*Body) (n int64, rerr, werr error) { return 0, nil, nil }

// canSplice returns false, because only Linux has splice(2).
func (*Writer) canSplice(*Body) bool { return false }

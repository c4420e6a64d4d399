//go:build !linux

package h1

// pipes exists only where there is splice(2).
type pipes struct{}

// splice leaves everything to be copied.
func (*Writer) splice(*Body) (n int64, rerr, werr error) { return 0, nil, nil }

func (*Writer) splices(*Body) bool { return false }

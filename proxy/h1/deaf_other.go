//go:build !linux

package h1

// pathOf has no portable form.
func pathOf(uintptr) (path, bool) { return path{}, false }

func askPath(uintptr) {}

//go:build !linux

package h1

// readPath has no portable form.
func readPath(uintptr) (path, bool) { return path{}, false }

func sendProbe(uintptr) {}

//go:build unix && !linux

package proxy

import "errors"

// dropSYNs is not supported.
func dropSYNs(int) error { return errors.ErrUnsupported }

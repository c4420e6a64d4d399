//go:build unix && !linux

package listener

import "errors"

// dropSYNs is not supported.
func dropSYNs(int) error { return errors.ErrUnsupported }

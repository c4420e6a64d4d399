package chanutil

// Notify sends to c, a channel of capacity one, so that its reader wakes up. It does not block: if c is full, the
// reader will wake up anyway.
func Notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Package chanutil has operations on channels of capacity one, which contain only the newest value.
package chanutil

// Replace puts v into c, a channel of capacity one, and removes the value that is in it. It does not block.
// Only one goroutine may send to c.
func Replace[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

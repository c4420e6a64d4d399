package simnet

// latch wakes everybody who waits on it, once per fire. Guarded by Net.mu.
type latch struct {
	c chan struct{}
}

// wait returns a channel that the next fire closes.
func (l *latch) wait() <-chan struct{} {
	if l.c == nil {
		l.c = make(chan struct{})
	}
	return l.c
}

func (l *latch) fire() {
	if l.c != nil {
		close(l.c)
		l.c = nil
	}
}

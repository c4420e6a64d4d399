package simnet

// latch wakes all its waiters, once per fire. Net.mu protects it.
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

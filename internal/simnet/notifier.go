package simnet

// notifier wakes all its waiters, once per fire. Net.mu protects it.
type notifier struct {
	c chan struct{}
}

// notified returns a channel that the next fire closes.
func (l *notifier) notified() <-chan struct{} {
	if l.c == nil {
		l.c = make(chan struct{})
	}
	return l.c
}

func (l *notifier) notifyAll() {
	if l.c != nil {
		close(l.c)
		l.c = nil
	}
}

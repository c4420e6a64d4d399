package simnet

// notifier wakes all its waiters when notifyAll is called. Net.mu protects it.
type notifier struct {
	ch chan struct{}
}

// notified returns a channel that the next call of notifyAll closes.
func (n *notifier) notified() <-chan struct{} {
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *notifier) notifyAll() {
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

package queue

// list is an intrusive doubly linked FIFO list of tickets: the links are fields of Ticket.
// A ticket is in at most one list, and can be removed from the middle in constant time.
type list struct {
	head, tail *Ticket
	len        int
}

// push appends a ticket that is in no list.
func (l *list) push(t *Ticket) {
	t.list, t.prev, t.next = l, l.tail, nil
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
	l.len++
}

// remove removes a ticket of this list.
func (l *list) remove(t *Ticket) {
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.list, t.prev, t.next = nil, nil, nil
	l.len--
}

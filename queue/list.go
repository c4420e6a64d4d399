package queue

// line is a first-in-first-out line of tickets that any of them can leave from
// the middle. Its links are in the tickets.
type line struct {
	head, tail *Ticket
	n          int
}

func (l *line) push(t *Ticket) {
	t.in, t.prev, t.next = l, l.tail, nil
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
	l.n++
}

func (l *line) remove(t *Ticket) {
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
	t.in, t.prev, t.next = nil, nil, nil
	l.n--
}

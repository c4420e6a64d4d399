package mux

import (
	"encoding/binary"
	"runtime"
	"slices"
)

// put has a frame written that none waits behind, or that waits behind none.
func (t *Trunk) put(k kind, lane uint32, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	t.add(k, lane, data)
	return nil
}

// add adds that frame. A reset waits behind what opens its lane: the other end takes none
// for a lane that it has not heard of. One of a socket's lane waits behind what that has said,
// which is its client's: who says his last and leaves is heard. With mu held.
func (t *Trunk) add(k kind, lane uint32, data []byte) {
	switch {
	case k == kindPing && t.asks, k == kindPong && t.answers:
		return // one says it all
	case k == kindPing:
		t.asks = true
	case k == kindPong:
		t.answers = true
	}
	reset := k == kindReset && (t.give == nil && lane > t.begun || t.budget.most > MaxLanes)
	if k == kindOpen || k == kindEnd || k == kindClose || reset {
		t.out = appendFrame(t.out, k, lane, data)
	} else {
		t.urgent = appendFrame(t.urgent, k, lane, data)
	}
	t.tell()
}

// send has data of a lane written; false means that too much waits already, and that the
// lane is woken when there may be room. With bulk there is more to come. Where nobody
// writes, and the socket takes it at once, it does so itself. What is whole waits for nobody's
// bytes at the end that opens lanes: those that there are, and the credit of each, bound it,
// unless they are many.
func (t *Trunk) send(l *Lane, data []byte, bulk bool) (bool, error) {
	most := mostQueue
	if bulk {
		most = bulkQueue
	}
	t.mu.Lock()
	switch {
	case t.err != nil:
		defer t.mu.Unlock()
		return false, t.err
	case len(t.out)+len(data) > most && (t.give != nil || bulk || t.budget.most > MaxLanes):
		defer t.mu.Unlock()
		if !l.crowds {
			l.crowds = true
			t.crowd = append(t.crowd, l)
		}
		return false, nil
	}
	if l.begins == 0 {
		l.begins = t.loads + 1
	}
	t.out = appendFrame(t.out, kindData, l.id, data)
	mine := !t.told && t.sock.works()
	if mine {
		t.told = true
	} else {
		t.tell()
	}
	t.mu.Unlock()
	if mine {
		t.writeSoon()
	}
	return true, nil
}

// credit has the other end told that it may send so much more on a lane: at one time, however
// often that was said before it is written.
func (t *Trunk) credit(l *Lane, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return // the next read says so
	}
	if l.back == 0 {
		t.credits = append(t.credits, l)
	}
	l.back += n
	t.tell()
}

// tell gives the writer its turn. With mu held.
func (t *Trunk) tell() {
	if !t.told {
		t.told = true
		t.turn <- struct{}{} // has room: told says that it is empty
	}
}

// write writes what there is whenever it has its turn. First it lets all go on that are
// ready to: what they have to say goes out with the rest.
func (t *Trunk) write() {
	for {
		select {
		case <-t.turn:
		case <-t.over:
			return
		}
		if len(t.rest) > 0 {
			n, err := t.sock.under.Write(t.rest)
			t.written(&t.owing, max(n, 1), err) // some of it had gone before
			t.owing, t.rest = load{}, nil
		} else {
			runtime.Gosched()
		}
		for t.flush() {
			continue
		}
	}
}

// atOnce is how often who has the turn without being the writer writes: what comes
// meanwhile is others', and their affair after that.
const atOnce = 2

// writeSoon writes what there is as write does, from the goroutine of who had something to
// say. It never waits: where the socket takes no more it leaves the rest to the writer. It
// has the turn.
func (t *Trunk) writeSoon() {
	runtime.Gosched()
	for range atOnce {
		u, some := t.load()
		if !some {
			return
		}
		wakeAll(u.crowd)
		n := 0
		b, err := t.sock.seal(u.out)
		if err == nil {
			if n, err = t.sock.send(b); err == nil && n < len(b) {
				t.owing, t.rest = u, b[n:]
				break
			}
		}
		t.written(&u, n, err)
	}
	t.turn <- struct{}{} // has room: told says that it is empty
}

// load is what is written at one time.
type load struct {
	out   []byte
	crowd []*Lane // whom to tell that there is room
	parts bool    // it says which lane was the last
}

// load returns what waits to be written; false: nothing does, or it cannot, and the turn has
// been given up.
func (t *Trunk) load() (u load, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || len(t.urgent)+len(t.out)+len(t.credits)+len(t.refusals) == 0 && !t.sock.owes() {
		if t.told = false; t.leaves {
			go t.Fail(ErrRetired)
		}
		return u, false
	}
	for _, l := range t.credits {
		var b [creditLen]byte
		binary.BigEndian.PutUint32(b[:], uint32(l.back))
		l.back = 0
		t.urgent = appendFrame(t.urgent, kindCredit, l.id, b[:])
	}
	for _, id := range t.refusals {
		t.urgent = appendFrame(t.urgent, kindRefuse, id, nil)
	}
	t.refusals = t.refusals[:0]
	t.loads++
	u = load{out: slices.Insert(t.out, 0, t.urgent...), crowd: t.crowd, parts: t.parts && !t.said}
	t.said, t.begun = t.parts, t.last
	t.urgent, t.out, t.spare = t.urgent[:0], t.spare, nil
	t.asks, t.answers = false, false
	for _, l := range t.parting {
		l.said = true
		t.settle(l)
	}
	for _, l := range t.crowd {
		l.crowds = false
	}
	t.credits, t.parting, t.crowd = emptied(t.credits), emptied(t.parting), nil
	return u, true
}

// emptied returns a list without its lanes, to be filled again.
func emptied(lanes []*Lane) []*Lane {
	clear(lanes)
	return lanes[:0]
}

// flush writes all that waits; false: nothing does, or it cannot.
func (t *Trunk) flush() bool {
	u, some := t.load()
	if !some {
		return false
	}
	wakeAll(u.crowd)
	n := 0
	b, err := t.sock.seal(u.out)
	if err == nil {
		n, err = t.sock.under.Write(b)
	}
	t.written(&u, n, err)
	return true
}

// written notes how much of it was, and why not all.
func (t *Trunk) written(u *load, n int, err error) {
	t.mu.Lock()
	if err != nil && n == 0 {
		t.loads-- // as if it waited still: who has something in it has sent nothing
	}
	if !t.keep(u.out) || t.live == 0 {
		t.trim()
	}
	t.mu.Unlock()
	if u.parts {
		close(t.parted)
	}
	if err != nil {
		t.Fail(err)
	}
}

func wakeAll(lanes []*Lane) {
	for _, l := range lanes {
		l.room()
	}
}

// keep keeps what a queue was written from, for the next one; false: it was so large, and so
// little of it is needed, that it is not kept. With mu held.
func (t *Trunk) keep(out []byte) bool {
	if len(out) > keptQueue/2 {
		t.little = 0
	} else {
		t.little++
	}
	if cap(out) > keptQueue && t.little >= lessOften {
		return false
	}
	t.spare = out[:0]
	return true
}

// trim lets go of the room that large writes have needed, but for what waits in it. With mu held.
func (t *Trunk) trim() {
	if cap(t.spare) > keptQueue {
		t.spare = nil
	}
	if len(t.out) == 0 && cap(t.out) > keptQueue {
		t.out = nil
	}
	t.sock.forget()
}

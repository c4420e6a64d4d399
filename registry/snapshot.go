package registry

import (
	"maps"
	"slices"
)

// Marshal encodes the state. Equal states have equal bytes on every node. The encoding is empty before the
// first entry.
func (s *State) Marshal() []byte {
	if s.index == 0 {
		return nil
	}
	w := writer{buf: make([]byte, 0, 1024+s.bytes+16*len(s.values)+128*len(s.locks))}
	w.uint(s.index)
	w.uint(uint64(len(s.locks)))
	for _, name := range slices.Sorted(maps.Keys(s.locks)) {
		w.lock(s.locks[name])
	}
	w.uint(uint64(len(s.values)))
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		w.text(key)
		w.uint(s.values[key].Index)
		w.uint(uint64(len(s.values[key].Data)))
		w.buf = append(w.buf, s.values[key].Data...)
	}
	w.uint(uint64(len(s.workers)))
	for _, node := range slices.Sorted(maps.Keys(s.workers)) {
		w.text(node)
		w.uint(uint64(s.workers[node]))
	}
	return w.buf
}

func (w *writer) lock(l *Lock) {
	w.text(l.Name)
	w.text(l.Holder)
	w.uint(l.Token)
	w.uint(l.Renewal)
	w.duration(l.TTL)
	w.uint(l.Place)
	w.uint(l.Contended)
	w.uint(uint64(len(l.Waiters)))
	for _, waiter := range l.Waiters {
		w.text(waiter.Holder)
		w.uint(waiter.Index)
		w.uint(waiter.Renewal)
		w.duration(waiter.TTL)
		w.duration(waiter.Wait)
	}
}

// Decode decodes the output of Marshal. The error is ErrCorrupt for any other input.
func Decode(data []byte) (*State, error) {
	s := NewState()
	if len(data) == 0 {
		return s, nil
	}
	r := reader{buf: data}
	s.index = r.uint(maxUint)
	last := ""
	for range r.uint(MaxLocks) {
		l := r.lock()
		s.waiters += len(l.Waiters)
		r.checkOrder(&last, l.Name)
		if r.err != nil {
			return nil, r.err
		}
		s.locks[l.Name] = l
	}
	last = ""
	for range r.uint(MaxKeys) {
		key, value := r.text(MaxKey), Value{Index: r.uint(maxUint), Data: []byte(r.text(MaxValue))}
		r.checkOrder(&last, key)
		if r.err != nil {
			return nil, r.err
		}
		s.values[key] = value
		s.bytes += len(key) + len(value.Data)
	}
	last = ""
	used := map[uint32]bool{}
	for range r.uint(MaxWorkers) {
		node, id := r.text(MaxNode), uint32(r.uint(MaxWorkers-1))
		r.checkOrder(&last, node)
		if used[id] {
			r.fail("worker ID %d twice", id)
		}
		if r.err != nil {
			return nil, r.err
		}
		s.workers[node], used[id] = id, true
	}
	if s.index == 0 || s.bytes > MaxBytes || s.waiters > MaxWaiters {
		r.fail("index %d, %d bytes of values, %d waiters", s.index, s.bytes, s.waiters)
	}
	return s, r.finish()
}

// checkOrder fails unless name follows last, and replaces last.
func (r *reader) checkOrder(last *string, name string) {
	if name <= *last {
		r.fail("%q after %q", name, *last)
	}
	*last = name
}

func (r *reader) lock() *Lock {
	l := &Lock{Name: r.text(MaxName), Holder: r.text(MaxHolder), Token: r.uint(maxUint), Renewal: r.uint(maxUint), TTL: r.duration(), Place: r.uint(maxUint), Contended: r.uint(maxUint)}
	for range r.uint(MaxWaiters) {
		w := Waiter{Holder: r.text(MaxHolder), Index: r.uint(maxUint), Renewal: r.uint(maxUint), TTL: r.duration(), Wait: r.duration()}
		if r.err != nil {
			break
		}
		l.Waiters = append(l.Waiters, w)
	}
	return l
}

// Recovered returns the registry of a cluster that continues with this state after a recovery or a restore. All locks
// are free, because the lost nodes may have granted them to other holders since. The log of the new cluster continues
// at a much higher index, so each new token and each new index of a key is higher than all earlier ones.
func (s *State) Recovered() *State {
	recovered := *s
	recovered.locks, recovered.waiters = map[string]*Lock{}, 0
	return &recovered
}

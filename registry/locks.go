package registry

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Lock is a lock that is held.
type Lock struct {
	Name   string `json:"name"`
	Holder string `json:"holder"`
	// Token is the index of the entry that has granted the lock to the holder.
	Token uint64 `json:"token"`
	// Renewal is the index of the last entry that has restarted the TTL.
	Renewal uint64        `json:"renewal"`
	TTL     time.Duration `json:"ttl"`
	// Place is the Renewal of the waiter that got the lock from the queue; zero means that the holder did not wait.
	Place uint64 `json:"place,omitempty"`
	// Contended is the number of acquire commands of other holders since the lock was last free.
	Contended uint64 `json:"contended,omitempty"`
	// Waiters are in the order in which they get the lock.
	Waiters []Waiter `json:"waiters,omitempty"`
}

// Waiter is a holder that waits for a lock.
type Waiter struct {
	Holder string `json:"holder"`
	// Index is the index of the entry that has added the waiter.
	Index uint64 `json:"index"`
	// Renewal is the index of the last Acquire of the holder.
	Renewal uint64        `json:"renewal"`
	TTL     time.Duration `json:"ttl"`
	Wait    time.Duration `json:"wait"`
}

// Lock returns a copy of a lock.
func (s *State) Lock(name string) (Lock, bool) {
	l := s.locks[name]
	if l == nil {
		return Lock{}, false
	}
	return l.clone(), true
}

// Locks returns copies of all locks, sorted by name.
func (s *State) Locks() []Lock {
	locks := make([]Lock, 0, len(s.locks))
	for _, name := range slices.Sorted(maps.Keys(s.locks)) {
		locks = append(locks, s.locks[name].clone())
	}
	return locks
}

func (l *Lock) clone() Lock {
	c := *l
	c.Waiters = slices.Clone(l.Waiters)
	return c
}

// brief returns the lock without its waiters, for a Result.
func (l *Lock) brief() Lock {
	c := *l
	c.Waiters = nil
	return c
}

// waiter returns the place of a holder in the queue, or -1.
func (l *Lock) waiter(holder string) int {
	return slices.IndexFunc(l.Waiters, func(w Waiter) bool { return w.Holder == holder })
}

// Wait is the state of a waiter.
type Wait uint8

// The states of a waiter.
const (
	WaitEnded   Wait = iota // the waiter has left the queue without the lock
	WaitQueued              // the waiter is in the queue
	WaitGranted             // the holder has the lock
)

// WaitState returns the state of the waiter that an Acquire with the index renewal has added, and the lock without its
// waiters.
func (s *State) WaitState(name, holder string, renewal uint64) (Wait, Lock) {
	l := s.locks[name]
	switch {
	case l == nil:
		return WaitEnded, Lock{}
	case l.Holder == holder:
		return WaitGranted, l.brief()
	}
	if place := l.waiter(holder); place >= 0 && l.Waiters[place].Renewal >= renewal {
		return WaitQueued, l.brief()
	}
	return WaitEnded, l.brief()
}

// acquire grants the lock, or adds the holder to the queue.
func (s *State) acquire(c *Command) Result {
	l := s.locks[c.Name]
	switch {
	case l == nil && len(s.locks) >= MaxLocks:
		return Result{Outcome: Full, Limit: limitText(MaxLocks, "locks that are held")}
	case l == nil:
		l = &Lock{Name: c.Name, Holder: c.Holder, Token: s.index, Renewal: s.index, TTL: c.TTL}
		s.locks[c.Name] = l
		return Result{Outcome: Done, Lock: l.brief()}
	case l.Holder == c.Holder:
		l.Renewal, l.TTL = s.index, c.TTL
		return Result{Outcome: Done, Lock: l.brief()}
	}
	l.Contended++
	place := l.waiter(c.Holder)
	switch {
	case c.Wait == 0:
		s.removeWaiter(l, place)
		return Result{Outcome: Held, Lock: l.brief()}
	case place < 0 && s.waiters >= MaxWaiters:
		return Result{Outcome: Full, Lock: l.brief(), Limit: limitText(MaxWaiters, "waiters for locks")}
	case place < 0:
		place = len(l.Waiters)
		l.Waiters = append(l.Waiters, Waiter{Holder: c.Holder, Index: s.index})
		s.waiters++
	}
	w := &l.Waiters[place]
	w.Renewal, w.TTL, w.Wait = s.index, c.TTL, c.Wait
	return Result{Outcome: Queued, Lock: l.brief(), Position: place + 1}
}

// renew restarts the TTL of a lock.
func (s *State) renew(c *Command) Result {
	l := s.held(c)
	if l == nil {
		return Result{Outcome: NotHeld}
	}
	l.Renewal = s.index
	if c.TTL > 0 {
		l.TTL = c.TTL
	}
	return Result{Outcome: Done, Lock: l.brief()}
}

// release ends a lock at the request of its holder.
func (s *State) release(c *Command) Result {
	l := s.held(c)
	if l == nil {
		return Result{Outcome: NotHeld}
	}
	s.pass(l)
	return Result{Outcome: Done, Freed: true}
}

// held returns the lock if it has the holder and the token of the command, otherwise nil.
func (s *State) held(c *Command) *Lock {
	if l := s.locks[c.Name]; l != nil && l.Holder == c.Holder && l.Token == c.Token {
		return l
	}
	return nil
}

// withdraw takes an Acquire back whose caller has left. It removes the waiter, and releases a lock that the waiter has got
// and not renewed. A later Acquire of the same holder keeps its place.
func (s *State) withdraw(c *Command) Result {
	l := s.locks[c.Name]
	if l == nil {
		return Result{Outcome: Ignored}
	}
	if l.Holder == c.Holder && l.Place == c.Renewal && l.Renewal == l.Token {
		s.pass(l)
		return Result{Outcome: Done, Freed: true}
	}
	return s.endWaiter(l, c)
}

// expire ends a lock whose TTL has passed at the leader, unless the holder has renewed it.
func (s *State) expire(c *Command) Result {
	l := s.locks[c.Name]
	if l == nil || l.Token != c.Token || l.Renewal != c.Renewal {
		return Result{Outcome: Ignored}
	}
	s.pass(l)
	return Result{Outcome: Done, Freed: true}
}

// expireWaiter ends a waiter whose wait has passed at the leader, unless the holder has renewed it.
func (s *State) expireWaiter(c *Command) Result {
	l := s.locks[c.Name]
	if l == nil {
		return Result{Outcome: Ignored}
	}
	return s.endWaiter(l, c)
}

// endWaiter removes the waiter with the holder and the renewal of the command.
func (s *State) endWaiter(l *Lock, c *Command) Result {
	place := l.waiter(c.Holder)
	if place < 0 || l.Waiters[place].Renewal != c.Renewal {
		return Result{Outcome: Ignored}
	}
	s.removeWaiter(l, place)
	return Result{Outcome: Done}
}

// removeWaiter removes the waiter at a place; -1 means none.
func (s *State) removeWaiter(l *Lock, place int) {
	if place >= 0 {
		l.Waiters = slices.Delete(l.Waiters, place, place+1)
		s.waiters--
	}
}

// pass gives a lock to its first waiter, with a new token. Without a waiter, the lock is free.
func (s *State) pass(l *Lock) {
	if len(l.Waiters) == 0 {
		delete(s.locks, l.Name)
		return
	}
	next := l.Waiters[0]
	s.removeWaiter(l, 0)
	l.Holder, l.Token, l.Renewal, l.TTL, l.Place = next.Holder, s.index, s.index, next.TTL, next.Renewal
}

// Counts returns the numbers of locks and of waiters.
func (s *State) Counts() (locks, waiters int) { return len(s.locks), s.waiters }

// limitText describes a limit of the registry.
func limitText(limit int, what string) string { return fmt.Sprintf("the limit is %d %s", limit, what) }

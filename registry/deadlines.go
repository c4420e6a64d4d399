package registry

import (
	"cmp"
	"slices"
	"time"
)

// waitGrace is added to the wait of a waiter. The node that waits for the lock withdraws the waiter in time, unless the
// node has crashed.
const waitGrace = 5 * time.Second

// Deadlines contains the deadlines of locks and waiters, as the leader measures them. Each begins when Update first
// sees a renewal, so a new leader gives every lock its full TTL again.
type Deadlines struct {
	entries map[deadlineKey]deadline
	round   uint64 // number of calls of Update
}

// deadlineKey identifies a lock, or a waiter of a lock.
type deadlineKey struct{ name, waiter string }

type deadline struct {
	renewal uint64
	at      time.Duration
	command Command
	round   uint64 // of the last Update that has seen the renewal
}

// NewDeadlines returns deadlines without a lock.
func NewDeadlines() *Deadlines { return &Deadlines{entries: map[deadlineKey]deadline{}} }

// Update adds deadlines for the renewals in s that d does not have, and deletes those that are not in s any more.
func (d *Deadlines) Update(now time.Duration, s *State) {
	d.round++
	for name, l := range s.locks {
		d.update(deadlineKey{name: name}, l.Renewal, now+l.TTL, Command{Kind: Expire, Name: name, Token: l.Token, Renewal: l.Renewal})
		for _, w := range l.Waiters {
			d.update(deadlineKey{name, w.Holder}, w.Renewal, now+w.Wait+waitGrace, Command{Kind: ExpireWaiter, Name: name, Holder: w.Holder, Renewal: w.Renewal})
		}
	}
	for key, entry := range d.entries {
		if entry.round != d.round {
			delete(d.entries, key)
		}
	}
}

func (d *Deadlines) update(key deadlineKey, renewal uint64, at time.Duration, command Command) {
	entry, exists := d.entries[key]
	if !exists || entry.renewal != renewal {
		entry = deadline{renewal: renewal, at: at, command: command}
	}
	entry.round = d.round
	d.entries[key] = entry
}

// Due returns the commands of all deadlines that have passed, and the time of the next one. next is zero if there is no
// other one. A command is returned again until Update sees its effect. Waiters come first, so that a lock does not pass to a
// waiter whose wait has passed.
func (d *Deadlines) Due(now time.Duration) (commands []Command, next time.Duration) {
	for _, entry := range d.entries {
		switch {
		case entry.at <= now:
			commands = append(commands, entry.command)
		case next == 0 || entry.at < next:
			next = entry.at
		}
	}
	slices.SortFunc(commands, func(a, b Command) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Holder, b.Holder))
	})
	return commands, next
}

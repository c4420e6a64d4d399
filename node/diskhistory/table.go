package diskhistory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"shardway/node/disk"
)

// Most is how many disks a Table knows at most; the one of which nothing new was
// heard for longest is forgotten first.
const Most = 1024

// MostOfOne is how many disks of one node a Table knows at most: a node says itself
// which disk it has, and would have those of all others forgotten. Of a node that got
// that many new disks the oldest have long left the configuration, and cannot vote.
const MostOfOne = 8

// Table is what one node knows of the disks of others. Its methods may be called
// from any goroutine.
type Table struct {
	changed chan struct{} // 1: hint

	mu    sync.Mutex
	known map[string]entry // by server
	last  uint64           // the newest entry's turn
}

type entry struct {
	disk.Known
	turn uint64 // orders entries by when something new was heard
}

// New returns a Table that begins with what was kept, the longest known first.
func New(kept []disk.Known) *Table {
	t := &Table{changed: make(chan struct{}, 1), known: make(map[string]entry, len(kept))}
	for _, k := range kept {
		t.put(k)
	}
	return t
}

// Changed gives a hint that there is something to keep.
func (t *Table) Changed() <-chan struct{} { return t.changed }

// All returns what is to be kept, the longest known first.
func (t *Table) All() []disk.Known {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := slices.SortedFunc(maps.Values(t.known), func(a, b entry) int { return cmp.Compare(a.turn, b.turn) })
	all := make([]disk.Known, len(entries))
	for i, e := range entries {
		all[i] = e.Known
	}
	return all
}

// Of returns what is known of a server, zero if nothing.
func (t *Table) Of(server string) disk.Known {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[server].Known
}

// Judge returns a *RollbackError if s is said by an older image of its disk or by
// a copy, as far as is known here.
func (t *Table) Judge(s Statement) error { return Check(t.Of(s.Server), s) }

// Knows reports whether s is said by the process known of its disk.
func (t *Table) Knows(s Statement) bool { return t.Of(s.Server).Nonce == s.Nonce }

// Learn takes what the process that Judge has nothing against says. It returns the
// error of Judge if another was quicker.
func (t *Table) Learn(s Statement) error {
	if s.Nonce == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[s.Server].Known
	if err := Check(k, s); err != nil {
		return err
	}
	was := k
	if k.Nonce != s.Nonce {
		k.Boot, k.Nonce = s.Boot, s.Nonce
	}
	k.Server, k.Boot, k.Term, k.Applied = s.Server, max(k.Boot, s.Boot), max(k.Term, s.Term), max(k.Applied, s.Applied)
	if k != was {
		t.put(k)
		t.tell()
	}
	return nil
}

// Recall takes what was kept and could not be read before: as if the Table had begun
// with it, and had learnt after that what it knows. A process that passed until now may
// turn out to have an older image of its disk.
func (t *Table) Recall(kept []disk.Known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range kept {
		now, ok := t.known[k.Server]
		if ok && Check(k, Statement{Server: now.Server, Boot: now.Boot, Nonce: now.Nonce, Term: now.Term, Applied: now.Applied, Last: ^uint64(0)}) == nil {
			if k.Nonce != now.Nonce {
				k.Nonce = now.Nonce
			}
			k.Boot, k.Term, k.Applied = max(k.Boot, now.Boot), max(k.Term, now.Term), max(k.Applied, now.Applied)
		}
		t.put(k)
	}
	t.tell()
}

// Term takes the Raft term that a server states in a message of Raft's, if it is
// known at all.
func (t *Table) Term(server string, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[server].Known
	if k.Nonce == 0 || term <= k.Term {
		return
	}
	k.Term = term
	t.put(k)
	t.tell()
}

// put holds t.mu, or is called before anybody else knows t.
func (t *Table) put(k disk.Known) {
	t.last++
	t.known[k.Server] = entry{Known: k, turn: t.last}
	node := nodeOf(k.Server)
	t.bound(MostOfOne, func(server string) bool { return nodeOf(server) == node })
	t.bound(Most, func(string) bool { return true })
}

// bound forgets the one of some entries of which nothing new was heard for longest,
// if there are more than most.
func (t *Table) bound(most int, which func(server string) bool) {
	n, oldest := 0, ""
	for server, e := range t.known {
		if !which(server) {
			continue
		}
		if n++; oldest == "" || e.turn < t.known[oldest].turn {
			oldest = server
		}
	}
	if n > most {
		delete(t.known, oldest)
	}
}

// nodeOf returns the node of "node/disk".
func nodeOf(server string) string {
	node, _, _ := strings.Cut(server, "/")
	return node
}

func (t *Table) tell() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

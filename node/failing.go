package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// maxWhy is how much is shown of why a hook failed, in bytes.
	maxWhy = 300
	// maxNamed is how many shards a line names.
	maxNamed = 8
)

// failing is what the app does not acquire. The agent's goroutine writes it, any reads.
type failing struct {
	now atomic.Pointer[map[shardmap.Shard]refusing] // nil: nothing
	// stale: there may be something new since the last look.
	stale bool
}

// refusing is a shard that the app could not acquire when it was asked last.
type refusing struct {
	epoch shardmap.Epoch
	why   string
}

func (f *failing) all() map[shardmap.Shard]refusing {
	if m := f.now.Load(); m != nil {
		return *m
	}
	return nil
}

// why says why a shard is not acquired, empty if it is or was not tried in vain.
func (f *failing) why(s shardmap.Shard) string { return f.all()[s].why }

// look takes what has failed since, and returns the shards that are new to it.
func (f *failing) look(held func() []ack.HeldShardView) (fresh []shardmap.Shard) {
	if !f.stale {
		return nil
	}
	f.stale = false
	was, now := f.all(), map[shardmap.Shard]refusing{}
	for _, h := range held() {
		if h.Phase != ack.HookAcquiring || h.Err == "" {
			continue
		}
		now[h.Shard] = refusing{h.Epoch, brief(h.Err)}
		if was[h.Shard].epoch != h.Epoch {
			fresh = append(fresh, h.Shard)
		}
	}
	if len(now) > 0 {
		f.now.Store(&now)
	} else if len(was) > 0 {
		f.now.Store(nil)
	}
	return fresh
}

// brief is foreign text for people: short, on one line, and nothing that a terminal
// obeys.
func brief(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text[:min(len(text), maxWhy)])
	return strings.TrimSpace(text)
}

// named names the shards that the app has failed to acquire, and says why; empty: none.
func (f *failing) named() (what, why string) {
	all := f.all()
	if len(all) == 0 {
		return "", ""
	}
	shards := slices.Sorted(maps.Keys(all))
	return named(shards), all[shards[0]].why
}

// named names shards, or so many of them.
func named(shards []shardmap.Shard) string {
	var numbers []string
	for _, s := range shards[:min(len(shards), maxNamed)] {
		numbers = append(numbers, strconv.Itoa(int(s)))
	}
	if len(shards) > maxNamed {
		numbers = append(numbers, "…")
	}
	if len(shards) == 1 {
		return "shard " + numbers[0]
	}
	return fmt.Sprintf("%d shards: %s", len(shards), strings.Join(numbers, ", "))
}

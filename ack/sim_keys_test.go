package ack_test

import (
	"fmt"
	"time"

	"shardway/ack"
)

// firstKeys is the first key configuration of every host.
const firstKeys = "k0"

// loads makes a host load a key configuration, as a SIGHUP or its next start does.
func (w *world) loads(h *host, keys string) {
	h.keys = keys
	if h.loaded == nil {
		h.loaded = map[string]bool{}
	}
	h.loaded[keys] = true
	w.logf("%s loads keys %s", h.id, keys)
}

// faultKeys changes the key configuration, host by host. One host may be omitted until the
// faults stop.
func faultKeys(w *world) bool {
	w.keyed++
	keys := fmt.Sprintf("k%d", w.keyed)
	forgotten := -1
	if w.pick(4) == 0 {
		forgotten = w.pick(len(w.hosts))
	}
	for i, h := range w.hosts {
		if i == forgotten {
			continue
		}
		w.after(w.span(0, 800*time.Millisecond), nil, func() {
			if !w.healing {
				w.loads(h, keys)
			}
		})
	}
	return true
}

// sameKeys makes all hosts load the newest key configuration.
func (w *world) sameKeys() {
	keys := fmt.Sprintf("k%d", w.keyed)
	for _, h := range w.hosts {
		if h.keys != keys {
			w.loads(h, keys)
		}
	}
}

// keysSettled reports whether the key configuration that all hosts have loaded is active.
func (w *world) keysSettled() bool { return w.truth.KeyConfig() == fmt.Sprintf("k%d", w.keyed) }

// checkKeys checks a commit that changes the key configuration: every member has loaded it.
func (w *world) checkKeys(before, after *ack.State) {
	if before.KeyConfig() == after.KeyConfig() {
		return
	}
	w.logf("log: keys %s are active from map %d on", after.KeyConfig(), after.KeyConfigSince())
	if before.KeyConfig() == "" {
		return
	}
	w.cover.rekeyed++
	for _, m := range after.Committed().Members() {
		has := false
		for _, h := range w.hosts {
			has = has || h.id == m.ID && h.loaded[after.KeyConfig()]
		}
		if !has {
			w.fail("keys: %s become active, and %s has never loaded them", after.KeyConfig(), m.ID)
		}
	}
}

// checkOneReading checks that no request runs whose key was found with another key
// configuration, with the exceptions of G1.
func (w *world) checkOneReading(p *proc, r *simReq) {
	for _, h := range w.hosts {
		q := h.proc
		if q == nil {
			continue
		}
		for _, other := range q.reqs {
			if other.keys == r.keys || !other.running || other.cut {
				continue
			}
			if p.h.hasCopy() || h.hasCopy() || r.forged || other.forged || r.late || other.late || q.excusedByStop() {
				continue
			}
			w.fail("keys: %s takes a request keyed by %q while %s runs one keyed by %q", p.h.id, r.keys, h.id, other.keys)
		}
	}
}

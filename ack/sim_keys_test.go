package ack_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/ack"
)

// firstKeys is the first key configuration of every host.
const firstKeys = "k0"

// keysText returns the key configuration of the given number. With services, most key configurations name one.
func (w *world) keysText(number int) string {
	text := fmt.Sprintf("k%d", number)
	if w.services != nil && number%4 > 0 {
		text += fmt.Sprintf(" %s=%d", simServices()[1+number%2], 1+number%3)
	}
	return text
}

// servicesOfKeys returns the services that a key configuration of a test names, as in "k1 chat=4".
func servicesOfKeys(keys string) (specs []ack.ServiceSpec) {
	for _, field := range strings.Fields(keys)[min(1, len(strings.Fields(keys))):] {
		name, number, _ := strings.Cut(field, "=")
		shards, _ := strconv.Atoi(number)
		specs = append(specs, ack.ServiceSpec{Name: name, Shards: shards})
	}
	return specs
}

// hasLoadedService reports whether the host has loaded a key configuration that names the service.
func (h *host) hasLoadedService(spec ack.ServiceSpec) bool {
	for keys := range h.loaded {
		if slices.Contains(servicesOfKeys(keys), spec) {
			return true
		}
	}
	return false
}

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
	keys := w.keysText(w.keyed)
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
	keys := w.keysText(w.keyed)
	for _, h := range w.hosts {
		if h.keys != keys {
			w.loads(h, keys)
		}
	}
}

// keysSettled reports whether the key configuration that all hosts have loaded is active, and the cluster has its
// services.
func (w *world) keysSettled() bool {
	keys := w.keysText(w.keyed)
	return w.truth.KeyConfig() == keys && len(lackedServices(w.truth, keys)) == 0
}

// lackedServices returns the services of a key configuration that the cluster could add.
func lackedServices(s *ack.State, keys string) (lacked []ack.ServiceSpec) {
	for _, spec := range servicesOfKeys(keys) {
		_, exists := s.Service(spec.Name)
		if !exists && s.CheckChanges([]ack.Change{addService(spec.Name, spec.Shards)}) == nil {
			lacked = append(lacked, spec)
		}
	}
	return lacked
}

// checkProposedKeys checks a proposal that changes the key configuration: the cluster has the services that it names.
func (w *world) checkProposedKeys(before, after *ack.State) {
	if before.KeyConfig() == "" || !after.ChangesKeyConfig() {
		return
	}
	if keys := ack.ProposedKeyConfig(after); len(lackedServices(before, keys)) > 0 {
		w.fail("keys: %q are proposed without their services", keys)
	}
}

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

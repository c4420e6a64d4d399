package ack_test

import "testing"

// FuzzAnyOrder lets the fuzzer choose the cluster, the dice and the faults: never
// two owners, and always progress once messages flow again.
func FuzzAnyOrder(f *testing.F) {
	for i := range uint64(len(mixes())) {
		f.Add(i+1, uint8(i), []byte{byte(i), 3, 7, 200, 1, 0, 90, 4, 17, 33, 2, 250, 5, 61})
	}
	f.Fuzz(func(t *testing.T, seed uint64, mix uint8, faults []byte) {
		all := mixes()
		m := all[int(mix)%len(all)]
		// An empty tape is one that is at its end, not none.
		s := simSetup{seed: seed, mix: m, faults: append([]byte{}, faults...)}
		if w := play(s, newCoverage()); w.failure == "" {
			return
		}
		s.faults, s.tracing = append([]byte{}, faults...), true
		w := play(s, newCoverage())
		t.Errorf("mix %s: %s\n%s", m.name, w.failure, tail(w.trace, 150))
	})
}

package wsrelay

import (
	"strings"
	"testing"

	"shardway/proxy/wsframe"
)

// FuzzParseConsent verifies that the owner confirms exactly the replay that the app has requested.
func FuzzParseConsent(f *testing.F) {
	for _, seed := range []string{"keep", "keep; replay=3", "keep;replay=64", "keep; replay=+1", "keep; replay=007", "kept; replay=1", "keep ; replay=1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		replay, ok := ParseConsent([]byte(value), valueResumable)
		if !ok {
			if replay != 0 {
				t.Errorf("%q: replay=%d without consent", value, replay)
			}
			return
		}
		if replay < 0 || replay > maxReplayMessages || !strings.HasPrefix(value, valueResumable) {
			t.Errorf("%q: replay=%d", value, replay)
		}
		if confirmed, ok := ParseConsent(AppendAccepted(nil, replay), ValueAccepted); !ok || confirmed != replay {
			t.Errorf("%q: the ingress reads replay=%d, %v", value, confirmed, ok)
		}
	})
}

// However the stream of a client is divided, the complete first messages are stored, without control
// frames.
func TestReplayStoresCompleteMessages(t *testing.T) {
	frame := func(first byte, payload string) []byte {
		return append([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
	}
	var stream, want []byte
	add := func(isStored bool, f []byte) {
		if stream = append(stream, f...); isStored {
			want = append(want, f...)
		}
	}
	add(true, frame(0x01, "on"))
	add(false, frame(0x89, "ping"))
	add(true, frame(0x80, "e"))
	add(false, frame(0x8a, ""))
	add(true, frame(0x82, ""))
	add(false, frame(0x81, "three"))
	for size := 1; size <= len(stream); size++ {
		r, scanner := replay{memory: &ReplayMemory{}, messagesLeft: 2}, wsframe.Client()
		for rest := stream; len(rest) > 0; {
			n, err := scanner.Step(rest[:min(size, len(rest))])
			if err != nil {
				t.Fatal(err)
			}
			r.record(rest[:n], &scanner)
			rest = rest[n:]
		}
		if got := r.messages(); string(got) != string(want) || r.failure != "" {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
}

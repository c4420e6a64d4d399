package secret_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"shardway/internal/secret"
)

func TestTicketKeysDependOnDaySecretAndCertificate(t *testing.T) {
	old := mustParse(t, known)[0]
	fresh := secret.Generate(time.Time{})
	site, other := sha256.Sum256([]byte("a.example")), sha256.Sum256([]byte("b.example"))
	keys := secret.List{fresh, old}.TicketKeys(20000, site)
	want := append(secret.List{fresh}.TicketKeys(20000, site), secret.List{old}.TicketKeys(20000, site)...)
	if len(keys) != 4 || !slices.Equal(keys, want) {
		t.Fatalf("want the keys of the first secret, then those of the second")
	}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) {
			t.Errorf("key %d equals an earlier one", i)
		}
	}
	next := secret.List{fresh}.TicketKeys(20001, site)
	if next[1] != keys[0] || next[0] == keys[0] {
		t.Error("the next day must accept the tickets of this day and encrypt with another key")
	}
	for _, k := range (secret.List{fresh, old}).TicketKeys(20000, other) {
		if slices.Contains(keys, k) {
			t.Error("certificates for different names share a key")
		}
	}
	// The key is part of the protocol: nodes of two versions must accept each other's
	// tickets.
	const fixed = "ddabb838d0ba5beb6cb3151a49fa284152447447c0e215b73f1bba21a14a4a07"
	if got := hex.EncodeToString(want[2][:]); got != fixed {
		t.Errorf("key of a fixed secret = %s, want %s", got, fixed)
	}
}

func TestTicketDayStartsAtMidnightUTC(t *testing.T) {
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	day := secret.TicketDayOf(midnight)
	for at, want := range map[time.Time]int64{
		midnight.Add(-time.Nanosecond): day - 1, midnight.Add(24*time.Hour - time.Nanosecond): day,
		midnight.In(time.FixedZone("", 3600)): day,
	} {
		if got := secret.TicketDayOf(at); got != want {
			t.Errorf("day of %v = %d, want %d", at, got, want)
		}
	}
}

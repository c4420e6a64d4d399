package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Prefix is what the tag of an endpoint begins with.
const Prefix = "ep."

// MaxTags is how many bytes the encoded tags of a Serf member may take
// (memberlist.MetaMaxSize).
const MaxTags = 512

// ErrTooLong reports tags that do not fit in MaxTags. Tags wraps it.
var ErrTooLong = errors.New("endpoints: tags too long")

// Tags returns own, a member's other tags, together with those of its endpoints
// (name → address). It checks each endpoint and that the whole fits; own itself
// is not changed.
func Tags(own, addrs map[string]string) (map[string]string, error) {
	tags := make(map[string]string, len(own)+len(addrs))
	maps.Copy(tags, own)
	for _, name := range slices.Sorted(maps.Keys(addrs)) {
		if err := Check(name, addrs[name]); err != nil {
			return nil, err
		}
		tags[Prefix+name] = addrs[name]
	}
	if n := EncodedLen(tags); n > MaxTags {
		return nil, fmt.Errorf("%w: %d bytes, Serf carries %d per member; the longest: %s; announce fewer endpoints, or shorter names and addresses", ErrTooLong, n, MaxTags, longest(tags))
	}
	return tags, nil
}

// FromTags returns the endpoints that a member's tags announce (name → address).
// Those that Check refuses are left out: tags come from other machines.
func FromTags(tags map[string]string) map[string]string {
	addrs := make(map[string]string)
	for tag, addr := range tags {
		if name, ok := strings.CutPrefix(tag, Prefix); ok && Check(name, addr) == nil {
			addrs[name] = addr
		}
	}
	return addrs
}

// EncodedLen returns how many bytes Serf makes of tags: one for the type, then a
// msgpack map in the old format, whose strings of 32 bytes and more have a length
// of three bytes.
func EncodedLen(tags map[string]string) int {
	n := 1 + 1
	if len(tags) > 15 {
		n += 2
	}
	for k, v := range tags {
		n += textLen(k) + textLen(v)
	}
	return n
}

func textLen(s string) int {
	if len(s) < 32 {
		return 1 + len(s)
	}
	return 3 + len(s)
}

// longest names the three tags that take most room.
func longest(tags map[string]string) string {
	size := func(k string) int { return textLen(k) + textLen(tags[k]) }
	keys := slices.SortedFunc(maps.Keys(tags), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b))
	})
	var words []string
	for _, k := range keys[:min(len(keys), 3)] {
		words = append(words, fmt.Sprintf("%s (%d)", k, size(k)))
	}
	return strings.Join(words, ", ")
}

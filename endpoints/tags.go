package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Prefix starts the name of every Serf tag that announces an endpoint.
const Prefix = "ep."

// MaxTags is the maximum size of the encoded tags of a Serf member in bytes (memberlist.MetaMaxSize).
const MaxTags = 512

// ErrTooLong reports tags that exceed MaxTags. Tags wraps it.
var ErrTooLong = errors.New("endpoints: tags too long")

// Tags returns the Serf tags of a member: the tags in own, and one tag for each endpoint in addrs
// (name → address). It returns an error that wraps ErrInvalid for an endpoint that Check rejects, or
// ErrTooLong if the encoded tags exceed MaxTags. It does not modify own.
func Tags(own, addrs map[string]string) (map[string]string, error) {
	tags := make(map[string]string, len(own)+len(addrs))
	maps.Copy(tags, own)
	for _, name := range slices.Sorted(maps.Keys(addrs)) {
		if err := Check(name, addrs[name]); err != nil {
			return nil, err
		}
		tags[Prefix+name] = addrs[name]
	}
	if size := EncodedLen(tags); size > MaxTags {
		return nil, fmt.Errorf("%w: %d bytes, Serf carries %d per member; the largest: %s", ErrTooLong, size, MaxTags, largestTags(tags))
	}
	return tags, nil
}

// FromTags returns the endpoints (name → address) that the tags of a member announce. It ignores
// endpoints that Check rejects, because tags are input from other machines.
func FromTags(tags map[string]string) map[string]string {
	addrs := make(map[string]string)
	for tag, addr := range tags {
		if name, ok := strings.CutPrefix(tag, Prefix); ok && Check(name, addr) == nil {
			addrs[name] = addr
		}
	}
	return addrs
}

// EncodedLen returns the size of tags in bytes as Serf encodes them: one byte for the type, then a map in
// the original msgpack format, in which a string of 32 bytes or more has a header of three bytes instead of one.
func EncodedLen(tags map[string]string) int {
	const typeByte = 1
	mapHeader := 1
	if len(tags) > 15 {
		mapHeader = 3
	}
	size := typeByte + mapHeader
	for name, value := range tags {
		size += encodedStringLen(name) + encodedStringLen(value)
	}
	return size
}

func encodedStringLen(s string) int {
	if len(s) < 32 {
		return 1 + len(s)
	}
	return 3 + len(s)
}

// largestTags returns the names and encoded sizes of the three largest tags.
func largestTags(tags map[string]string) string {
	size := func(name string) int { return encodedStringLen(name) + encodedStringLen(tags[name]) }
	names := slices.SortedFunc(maps.Keys(tags), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names[:min(len(names), 3)] {
		words = append(words, fmt.Sprintf("%s (%d)", name, size(name)))
	}
	return strings.Join(words, ", ")
}

package wrapkey

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"shardway/keysource"
	"shardway/proxy/h1"
)

// maxValues is the maximum number of different values of one field in a request. Each value costs one HMAC per
// secret.
const maxValues = 8

// Fields contains the wrapped fields of a key configuration.
type Fields []Field

// NewFields returns the fields of the sources, which are of kind keysource.Wrap. It returns nil if there
// are none.
func NewFields(sources []keysource.Source) Fields {
	var fields Fields
	for _, source := range sources {
		name := source.Name
		if source.Wrapped == keysource.Header {
			name = strings.ToLower(name)
		}
		fields = append(fields, Field{source.Wrapped, name})
	}
	return fields
}

// index returns the index of the field that a source wraps, or -1.
func (fields Fields) index(source *keysource.Source) int {
	return slices.IndexFunc(fields, func(field Field) bool {
		if field.kind != source.Wrapped {
			return false
		}
		if field.kind == keysource.Header {
			return equalHeaderNames(field.name, source.Name)
		}
		return field.name == source.Name
	})
}

// equalHeaderNames reports whether apps may treat two header names as equal: case does not matter, nor which
// special character is used.
func equalHeaderNames(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if normalByte(a[i]) != normalByte(b[i]) {
			return false
		}
	}
	return true
}

// normalByte returns c in lowercase, or '-' if c is neither a letter nor a digit.
func normalByte(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c | 0x20
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return c
	}
	return '-'
}

// Names yields the names of the wrapped fields of a kind, and their indexes.
func (fields Fields) Names(kind keysource.Kind) func(yield func(index int, name string) bool) {
	return func(yield func(int, string) bool) {
		for i := range fields {
			if fields[i].kind == kind && !yield(i, fields[i].name) {
				return
			}
		}
	}
}

// Request contains the values of the wrapped fields in one request.
type Request struct {
	codec    *Codec
	fields   Fields
	states   []fieldState // by the index of the field
	stripped []h1.FieldValue
}

// fieldState is what a request contains of one field.
type fieldState struct {
	values []fieldValue // different values; at most maxValues

	key      []byte // key of all suffixes; nil means none
	twoKeys  bool   // two suffixes have different keys
	hasPlain bool   // a value has no valid suffix
	tooMany  bool   // there are more than maxValues values

	// Set by the caller of Add.

	removed   bool // removed by Connection, so that the app does not receive it
	ambiguous bool // the app may find another value
	otherCase bool // a cookie has the name of the field in another case

	responseKey []byte // key for the field in the response; nil means none
	isSource    bool   // the field is among the sources of the request
}

// fieldValue is a value of a field in a request.
type fieldValue struct {
	text      []byte
	suffixLen int // zero if text has no valid suffix
}

// NewRequest returns the values of a request in which no value has been found yet.
func NewRequest(codec *Codec, fields Fields) *Request {
	return &Request{codec: codec, fields: fields, states: make([]fieldState, len(fields))}
}

// Add adds a value of a field, without quotes. It returns the length of its suffix, or zero if the value has no
// valid suffix. An empty value has no effect. The text must not change while r is in use.
func (r *Request) Add(field int, text []byte) (suffixLen int) {
	if len(text) == 0 {
		return 0
	}
	state := &r.states[field]
	for _, known := range state.values {
		if bytes.Equal(known.text, text) {
			return known.suffixLen
		}
	}
	if len(state.values) == maxValues {
		state.tooMany = true
		return 0
	}
	value, key, hasSuffix := r.codec.Split(&r.fields[field], text)
	if hasSuffix {
		suffixLen = len(text) - len(value)
	}
	state.values = append(state.values, fieldValue{text, suffixLen})
	switch {
	case !hasSuffix:
		state.hasPlain = true
	case state.key == nil && !state.twoKeys:
		state.key = key
	case !bytes.Equal(state.key, key):
		state.key, state.twoKeys = nil, true
	}
	return suffixLen
}

// MarkRemoved records that the app does not receive a value of the field.
func (r *Request) MarkRemoved(field int) { r.states[field].removed = true }

// MarkAmbiguous records that the app may find a different value of the field.
func (r *Request) MarkAmbiguous(field int) { r.states[field].ambiguous = true }

// MarkOtherCase records that a cookie has the field's name in different case. Some apps use its value instead.
func (r *Request) MarkOtherCase(field int) { r.states[field].otherCase = true }

// Replace records the value of a header line without suffixes.
func (r *Request) Replace(line int, value []byte) {
	r.stripped = append(r.stripped, h1.FieldValue{Line: line, Value: value})
	slices.SortFunc(r.stripped, func(a, b h1.FieldValue) int { return cmp.Compare(a.Line, b.Line) })
}

// Stripped returns the header lines of the request without suffixes, for h1.Edit.Replace.
func (r *Request) Stripped() []h1.FieldValue { return r.stripped }

// Reading is what a request contains of a source.
type Reading uint8

// The values of Reading.
const (
	Absent    Reading = iota // the request has no value
	Plain                    // no value has a valid suffix
	Wrapped                  // all values have the same key
	TwoKeys                  // the app may use a value with a different key, or one without a key
	NotForApp                // the app does not receive the value
)

// Read returns what the request contains for a source of kind keysource.Wrap, and the key if the result is Wrapped.
func (r *Request) Read(source *keysource.Source) (Reading, []byte) {
	state := &r.states[r.fields.index(source)]
	switch {
	case state.twoKeys || state.tooMany || state.ambiguous:
		return TwoKeys, nil
	case len(state.values) == 0:
		return Absent, nil
	case state.otherCase:
		return TwoKeys, nil
	case state.key == nil:
		return Plain, nil
	case state.hasPlain:
		return TwoKeys, nil
	case state.removed:
		return NotForApp, nil
	}
	return Wrapped, state.key
}

// HasTwoKeys reports whether the suffixes of the sources have different keys, or a field has too many values
// to verify them.
func (r *Request) HasTwoKeys(sources []keysource.Source) bool {
	for i := range r.states {
		if r.states[i].tooMany {
			return true
		}
	}
	var first []byte
	for i := range sources {
		if sources[i].Kind != keysource.Wrap {
			continue
		}
		state := &r.states[r.fields.index(&sources[i])]
		if state.twoKeys || state.key != nil && first != nil && !bytes.Equal(state.key, first) {
			return true
		}
		if state.key != nil {
			first = state.key
		}
	}
	return false
}

// Bind sets the keys for the response. A field that has a key in the request keeps this key. key is the key of the
// request if Shardway created it, now or for an earlier response, or if it comes from a suffix; otherwise it is
// nil. The fields of the sources get this key.
func (r *Request) Bind(sources []keysource.Source, key []byte) {
	for i := range r.states {
		r.states[i].responseKey = r.states[i].key
	}
	for i := range sources {
		if sources[i].Kind == keysource.Wrap {
			r.states[r.fields.index(&sources[i])].isSource = true
		}
	}
	if key != nil {
		r.setResponseKey(key)
	}
}

// Rename sets the keys for the response after the app has named the key of the request. The fields of the sources
// get this key. They keep their keys if the key is too long for a suffix. They also keep their keys if there are
// several fields and the request has a suffix, because a response that sets only one of them would leave the client
// with two keys. Bind must have been called.
func (r *Request) Rename(key []byte) {
	sources, hasSuffix := 0, false
	for i := range r.states {
		if r.states[i].isSource {
			sources++
			hasSuffix = hasSuffix || r.states[i].key != nil
		}
	}
	if canWrap(key) && (sources == 1 || !hasSuffix) {
		r.setResponseKey(key)
	}
}

// setResponseKey sets the response key of the fields of the sources.
func (r *Request) setResponseKey(key []byte) {
	key = bytes.Clone(key)
	for i := range r.states {
		if r.states[i].isSource {
			r.states[i].responseKey = key
		}
	}
}

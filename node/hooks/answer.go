package hooks

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// maxWhy is how much is kept of why a shard failed.
const maxWhy = 256

// form is the remedy for an answer that cannot be read.
const form = `answer with an empty body, or like {"notes":{"17":"<base64>"},"failed":{"18":"why"},"absent":[19]}`

// decode reads the response to a call: an empty body, or a JSON object. Its members notes
// and failed map shards to texts, and absent lists shards; decode ignores other members.
// Notes and absent count for a release only, and not for a shard that failed.
func decode(call *agent.HookCall, body []byte) (agent.HookResult, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return agent.HookResult{}, nil
	}
	members, err := object(body)
	if err != nil {
		return agent.HookResult{}, fmt.Errorf("the app's answer cannot be read: %w; %s", err, form)
	}
	var notes, failed []entry
	var absent []shardmap.Shard
	for _, m := range members {
		switch m.name {
		case "notes":
			notes, err = entries(call, m)
		case "failed":
			failed, err = entries(call, m)
		case "absent":
			absent, err = listed(call, m)
		}
		if err != nil {
			return agent.HookResult{}, err
		}
	}
	r := agent.HookResult{Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	for _, f := range failed {
		r.Failed[f.shard] = why(f.text)
	}
	if call.Kind != agent.HookRelease {
		return r, nil
	}
	for _, n := range notes {
		note, err := base64.StdEncoding.Strict().DecodeString(n.text)
		if _, failed := r.Failed[n.shard]; err != nil && !failed {
			r.Failed[n.shard] = "the note is not base64; encode it with the standard alphabet and padding"
		}
		keep(&r, n.shard, note)
	}
	leaveOut(&r, absent)
	return r, nil
}

// why is foreign text for logs and answers; it is never empty.
func why(text string) string {
	return cmp.Or(clipped(text, maxWhy), "the app does not say why")
}

// keep takes a note into the result, or has its shard fail for it: what the next owner
// is told has to be whole.
func keep(r *agent.HookResult, s shardmap.Shard, note []byte) {
	switch _, failed := r.Failed[s]; {
	case failed:
	case len(note) > ack.MaxNote:
		r.Failed[s] = fmt.Sprintf("the note has %d bytes, and may have %d; let it say where the state is", len(note), ack.MaxNote)
	case len(note) > 0:
		r.Notes[s] = slices.Clone(note)
	}
}

// leaveOut takes into the result which shards the app does not hold, with their notes left
// out. A shard that has failed has failed.
func leaveOut(r *agent.HookResult, absent []shardmap.Shard) {
	for _, s := range absent {
		if _, failed := r.Failed[s]; failed {
			continue
		}
		delete(r.Notes, s)
		if r.Absent == nil {
			r.Absent = make(map[shardmap.Shard]bool)
		}
		r.Absent[s] = true
	}
}

// notAsked reports an answer about a shard that the call does not name.
func notAsked(of string, s shardmap.Shard) error {
	return fmt.Errorf("%q of the app's answer names shard %d, of which it was not asked; name those of the call only", of, s)
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// entry is what notes or failed says of a shard.
type entry struct {
	shard shardmap.Shard
	text  string
}

// entries reads notes or failed. Null says nothing, there or of a shard.
func entries(call *agent.HookCall, of member) ([]entry, error) {
	if string(of.value) == "null" {
		return nil, nil
	}
	members, err := object(of.value)
	if err != nil {
		return nil, fmt.Errorf("%q of the app's answer cannot be read: %w; %s", of.name, err, form)
	}
	var list []entry
	for _, m := range members {
		n, _ := strconv.ParseUint(m.name, 10, 16)
		shard := shardmap.Shard(n)
		if strconv.FormatUint(n, 10) != m.name { // so it is of what cannot be read
			return nil, fmt.Errorf("%q of the app's answer names %q, which is no shard; %s", of.name, why(m.name), form)
		}
		if !called(call, shard) {
			return nil, notAsked(of.name, shard)
		}
		var text *string
		if json.Unmarshal(m.value, &text) != nil {
			return nil, fmt.Errorf("%q of the app's answer has for shard %d something else than a text; %s", of.name, n, form)
		}
		if text != nil {
			list = append(list, entry{shard, *text})
		}
	}
	return list, nil
}

// listed reads the shards of absent. Null lists none.
func listed(call *agent.HookCall, of member) ([]shardmap.Shard, error) {
	var numbers []json.Number
	if json.Unmarshal(of.value, &numbers) != nil {
		return nil, fmt.Errorf("%q of the app's answer is no list of shard numbers; %s", of.name, form)
	}
	var list []shardmap.Shard
	for _, number := range numbers {
		n, err := strconv.ParseUint(number.String(), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q of the app's answer names %q, which is no shard; %s", of.name, why(number.String()), form)
		}
		if !called(call, shardmap.Shard(n)) {
			return nil, notAsked(of.name, shardmap.Shard(n))
		}
		list = append(list, shardmap.Shard(n))
	}
	return list, nil
}

// called reports whether the call names a shard.
func called(call *agent.HookCall, shard shardmap.Shard) bool {
	return slices.ContainsFunc(call.Shards, func(s agent.HookShard) bool { return s.Shard == shard })
}

// object reads one JSON object with nothing behind it. A member that is there twice is a
// mistake: nobody can see which one counts.
func object(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	} else if t != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	var members []member
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{}
		m.name, _ = name.(string) // the decoder takes nothing else there
		if err = d.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.name] {
			return nil, fmt.Errorf("%q is there twice", why(m.name))
		}
		seen[m.name] = true
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return members, nil
}

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

// maxWhy is the largest length of the reason why a shard failed, in bytes. Longer reasons are truncated.
const maxWhy = 256

// form is the remedy for an invalid response.
const form = `answer with an empty body, or like {"notes":{"17":"<base64>"},"failed":{"18":"why"},"absent":[19]}`

// decode decodes the body of the response to a call: it is empty or a JSON object. The members notes
// and failed map shards to texts, and absent lists shards. decode ignores all other members. It uses notes
// and absent only for a release, and not for a shard that has failed.
func decode(call *agent.HookCall, body []byte) (agent.HookResult, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return agent.HookResult{}, nil
	}
	members, err := parseMembers(body)
	if err != nil {
		return agent.HookResult{}, fmt.Errorf("the app's answer cannot be read: %w; %s", err, form)
	}
	var notes, failed []entry
	var absent []shardmap.Shard
	for _, m := range members {
		switch m.name {
		case "notes":
			notes, err = parseShardTexts(call, m)
		case "failed":
			failed, err = parseShardTexts(call, m)
		case "absent":
			absent, err = parseShardList(call, m)
		}
		if err != nil {
			return agent.HookResult{}, err
		}
	}
	r := agent.HookResult{Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	for _, f := range failed {
		r.Failed[f.shard] = truncateReason(f.text)
	}
	if call.Kind != agent.HookRelease {
		return r, nil
	}
	for _, n := range notes {
		note, err := base64.StdEncoding.Strict().DecodeString(n.text)
		if _, failed := r.Failed[n.shard]; err != nil && !failed {
			r.Failed[n.shard] = "the note is not base64; encode it with the standard alphabet and padding"
		}
		storeNote(&r, n.shard, note)
	}
	markAbsent(&r, absent)
	return r, nil
}

// truncateReason prepares a reason that the app has sent for logs and responses. The result is printable, is at most
// maxWhy long, and is never empty.
func truncateReason(text string) string {
	return cmp.Or(truncate(text, maxWhy), "the app does not say why")
}

// storeNote adds the note of a shard to r. If the note is too long, the shard fails instead, because the next
// owner must not receive a truncated note.
func storeNote(r *agent.HookResult, s shardmap.Shard, note []byte) {
	switch _, failed := r.Failed[s]; {
	case failed:
	case len(note) > ack.MaxNote:
		r.Failed[s] = fmt.Sprintf("the note has %d bytes, and may have %d; let it say where the state is", len(note), ack.MaxNote)
	case len(note) > 0:
		r.Notes[s] = slices.Clone(note)
	}
}

// markAbsent records in r that the app does not hold the shards in absent, and deletes their notes. It ignores
// shards that have failed.
func markAbsent(r *agent.HookResult, absent []shardmap.Shard) {
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

// notAsked returns the error for a response that contains a shard which the call does not contain.
func notAsked(of string, s shardmap.Shard) error {
	return fmt.Errorf("%q of the app's answer names shard %d, of which it was not asked; name those of the call only", of, s)
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// entry is the text for one shard in notes or failed.
type entry struct {
	shard shardmap.Shard
	text  string
}

// parseShardTexts decodes the member notes or failed. The value null, for the whole member or for a shard, means no
// entry.
func parseShardTexts(call *agent.HookCall, of member) ([]entry, error) {
	if string(of.value) == "null" {
		return nil, nil
	}
	members, err := parseMembers(of.value)
	if err != nil {
		return nil, fmt.Errorf("%q of the app's response cannot be parsed: %w; %s", of.name, err, form)
	}
	var list []entry
	for _, m := range members {
		n, _ := strconv.ParseUint(m.name, 10, 16)
		shard := shardmap.Shard(n)
		if strconv.FormatUint(n, 10) != m.name { // also true if ParseUint has failed, or for leading zeros
			return nil, fmt.Errorf("%q of the app's response names %q, which is not a shard number; %s", of.name, truncateReason(m.name), form)
		}
		if !isCalled(call, shard) {
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

// parseShardList decodes the member absent. null means no shards.
func parseShardList(call *agent.HookCall, of member) ([]shardmap.Shard, error) {
	var numbers []json.Number
	if json.Unmarshal(of.value, &numbers) != nil {
		return nil, fmt.Errorf("%q of the app's response is not a list of shard numbers; %s", of.name, form)
	}
	var list []shardmap.Shard
	for _, number := range numbers {
		n, err := strconv.ParseUint(number.String(), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q of the app's response names %q, which is not a shard number; %s", of.name, truncateReason(number.String()), form)
		}
		if !isCalled(call, shardmap.Shard(n)) {
			return nil, notAsked(of.name, shardmap.Shard(n))
		}
		list = append(list, shardmap.Shard(n))
	}
	return list, nil
}

// isCalled reports whether the call contains a shard.
func isCalled(call *agent.HookCall, shard shardmap.Shard) bool {
	return slices.ContainsFunc(call.Shards, func(s agent.HookShard) bool { return s.Shard == shard })
}

// parseMembers decodes one JSON object that must be the whole text. A duplicate member is an error, because it is
// unclear which of the values applies.
func parseMembers(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	} else if t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var members []member
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{}
		m.name, _ = name.(string) // the decoder accepts only strings as names
		if err = d.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.name] {
			return nil, fmt.Errorf("%q is there twice", truncateReason(m.name))
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

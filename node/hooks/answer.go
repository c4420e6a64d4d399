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

// maxReasonBytes is the maximum length of the reason why a shard failed, in bytes. Longer reasons are truncated.
const maxReasonBytes = 256

// responseFormat is the remedy in the error for an invalid response.
const responseFormat = `answer with an empty body, or like {"notes":{"17":"<base64>"},"failed":{"18":"why"},"absent":[19]}`

// decodeResponse decodes the body of the response to a call: it is empty or a JSON object. The members notes
// and failed map shards to texts, and absent lists shards. decodeResponse ignores all other members. It uses
// notes and absent only for a release, and not for a shard that has failed.
func decodeResponse(call *agent.HookCall, body []byte) (agent.HookResult, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return agent.HookResult{}, nil
	}
	members, err := parseMembers(body)
	if err != nil {
		return agent.HookResult{}, fmt.Errorf("the app's answer cannot be read: %w; %s", err, responseFormat)
	}
	var notes, failed []shardText
	var absent []shardmap.Shard
	for _, jsonMember := range members {
		switch jsonMember.name {
		case "notes":
			notes, err = parseShardTexts(call, jsonMember)
		case "failed":
			failed, err = parseShardTexts(call, jsonMember)
		case "absent":
			absent, err = parseShardList(call, jsonMember)
		}
		if err != nil {
			return agent.HookResult{}, err
		}
	}
	result := agent.HookResult{Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	for _, failure := range failed {
		result.Failed[failure.shard] = truncateReason(failure.text)
	}
	if call.Kind != agent.HookRelease {
		return result, nil
	}
	for _, encoded := range notes {
		note, err := base64.StdEncoding.Strict().DecodeString(encoded.text)
		if _, failed := result.Failed[encoded.shard]; err != nil && !failed {
			result.Failed[encoded.shard] = "the note is not base64; encode it with the standard alphabet and padding"
		}
		storeNote(&result, encoded.shard, note)
	}
	markAbsent(&result, absent)
	return result, nil
}

// truncateReason prepares a reason that the app has sent for logs and responses. The result is printable, is at most
// maxReasonBytes long, and is never empty.
func truncateReason(text string) string {
	return cmp.Or(truncate(text, maxReasonBytes), "the app does not say why")
}

// storeNote adds the note of a shard to result. If the note is too long, the shard fails instead, because the
// next owner must not receive a truncated note.
func storeNote(result *agent.HookResult, shard shardmap.Shard, note []byte) {
	switch _, failed := result.Failed[shard]; {
	case failed:
	case len(note) > ack.MaxNote:
		result.Failed[shard] = fmt.Sprintf("the note has %d bytes, and may have %d; let it say where the state is", len(note), ack.MaxNote)
	case len(note) > 0:
		result.Notes[shard] = slices.Clone(note)
	}
}

// markAbsent records in result that the app does not hold the shards in absent, and deletes their notes. It
// ignores shards that have failed.
func markAbsent(result *agent.HookResult, absent []shardmap.Shard) {
	for _, shard := range absent {
		if _, failed := result.Failed[shard]; failed {
			continue
		}
		delete(result.Notes, shard)
		if result.Absent == nil {
			result.Absent = make(map[shardmap.Shard]bool)
		}
		result.Absent[shard] = true
	}
}

// unexpectedShardError returns the error for a response that contains a shard which the call does not contain.
func unexpectedShardError(memberName string, shard shardmap.Shard) error {
	return fmt.Errorf("%q of the app's answer names shard %d, of which it was not asked; name those of the call only", memberName, shard)
}

// jsonMember is a member of a JSON object.
type jsonMember struct {
	name  string
	value json.RawMessage
}

// shardText is the text for one shard in notes or failed.
type shardText struct {
	shard shardmap.Shard
	text  string
}

// parseShardTexts decodes the member notes or failed. The value null, for the whole member or for a shard, means no
// entry.
func parseShardTexts(call *agent.HookCall, field jsonMember) ([]shardText, error) {
	if string(field.value) == "null" {
		return nil, nil
	}
	members, err := parseMembers(field.value)
	if err != nil {
		return nil, fmt.Errorf("%q of the app's response cannot be parsed: %w; %s", field.name, err, responseFormat)
	}
	var texts []shardText
	for _, entry := range members {
		number, _ := strconv.ParseUint(entry.name, 10, 16)
		shard := shardmap.Shard(number)
		if strconv.FormatUint(number, 10) != entry.name { // also true if ParseUint has failed, or for leading zeros
			return nil, fmt.Errorf("%q of the app's response names %q, which is not a shard number; %s", field.name, truncateReason(entry.name), responseFormat)
		}
		if !callContains(call, shard) {
			return nil, unexpectedShardError(field.name, shard)
		}
		var text *string
		if json.Unmarshal(entry.value, &text) != nil {
			return nil, fmt.Errorf("%q of the app's answer has for shard %d something else than a text; %s", field.name, number, responseFormat)
		}
		if text != nil {
			texts = append(texts, shardText{shard, *text})
		}
	}
	return texts, nil
}

// parseShardList decodes the member absent. null means no shards.
func parseShardList(call *agent.HookCall, field jsonMember) ([]shardmap.Shard, error) {
	var numbers []json.Number
	if json.Unmarshal(field.value, &numbers) != nil {
		return nil, fmt.Errorf("%q of the app's response is not a list of shard numbers; %s", field.name, responseFormat)
	}
	var shards []shardmap.Shard
	for _, number := range numbers {
		parsed, err := strconv.ParseUint(number.String(), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q of the app's response names %q, which is not a shard number; %s", field.name, truncateReason(number.String()), responseFormat)
		}
		if !callContains(call, shardmap.Shard(parsed)) {
			return nil, unexpectedShardError(field.name, shardmap.Shard(parsed))
		}
		shards = append(shards, shardmap.Shard(parsed))
	}
	return shards, nil
}

// callContains reports whether the call contains a shard.
func callContains(call *agent.HookCall, shard shardmap.Shard) bool {
	return slices.ContainsFunc(call.Shards, func(hookShard agent.HookShard) bool { return hookShard.Shard == shard })
}

// parseMembers decodes one JSON object that must be the whole text. A duplicate member is an error, because it is
// unclear which of the values applies.
func parseMembers(text []byte) ([]jsonMember, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	} else if token != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var members []jsonMember
	seen := make(map[string]bool)
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		parsed := jsonMember{}
		parsed.name, _ = name.(string) // the decoder accepts only strings as names
		if err = decoder.Decode(&parsed.value); err != nil {
			return nil, err
		}
		if seen[parsed.name] {
			return nil, fmt.Errorf("%q is there twice", truncateReason(parsed.name))
		}
		seen[parsed.name] = true
		members = append(members, parsed)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return members, nil
}

// A stand-in for an LLM server with the streaming API of OpenAI. It has no model: it counts. Like a real server, it
// keeps the prompts of conversations in memory, and reports how much of a prompt it found there.
import { appendFileSync, existsSync } from 'node:fs'
import { createServer } from 'node:http'

const { PORT, INSTANCE, DIR } = process.env
const cache = new Map() // the messages of each conversation

createServer(async (req, res) => {
  if (req.method !== 'POST') return res.end('ok')
  appendFileSync(DIR + '/access.log', `${req.headers['shardway-key']} ${req.headers['shardway-epoch']} ${req.url}\n`)
  let body = ''
  for await (const part of req.setEncoding('utf8')) body += part
  const { model, messages, prompt_cache_key: conversation = req.headers['x-conversation'], max_completion_tokens: count } = JSON.parse(body)
  const known = cache.get(conversation) ?? []
  let cached = 0
  while (cached < known.length && JSON.stringify(known[cached]) === JSON.stringify(messages[cached])) cached++
  const send = (choices, usage) => res.write('data: ' + JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 0, model, system_fingerprint: INSTANCE, choices, usage }) + '\n\n')
  const chunk = (delta, reason = null) => send([{ index: 0, delta, finish_reason: reason }])
  res.writeHead(200, { 'Content-Type': 'text/event-stream' })
  chunk({ role: 'assistant', content: '' })
  let content = ''
  for (let i = 1; i <= count; i++) {
    // The model "slow" stops in the middle of its response, until the test lets it continue.
    while (model === 'slow' && i > count / 2 && !existsSync(`${DIR}/continue-${conversation}`)) await new Promise(resolve => setTimeout(resolve, 10))
    content += i + ' '
    chunk({ content: i + ' ' })
    await new Promise(resolve => setTimeout(resolve, 2))
  }
  cache.set(conversation, [...messages, { role: 'assistant', content }])
  chunk({}, 'stop')
  send([], { prompt_tokens: messages.length, completion_tokens: count, total_tokens: messages.length + count, prompt_tokens_details: { cached_tokens: cached } })
  res.end('data: [DONE]\n\n')
}).listen(Number(PORT), '127.0.0.1')

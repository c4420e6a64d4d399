// Conversations with the client library of OpenAI. Each line of the input is a command, and prints a line of JSON:
// "start CONVERSATION ADDRESS MODEL" begins the next turn and waits for a part of the response, "finish CONVERSATION"
// waits for its end.
import { createInterface } from 'node:readline'
import OpenAI from 'openai'

const conversations = {}

/** start begins a turn. If the last turn failed, it is repeated. The key is in the body or in a header, in turn. */
async function start (conversation, addr, model) {
  const state = conversations[conversation] ??= { messages: [] }
  const messages = [...state.messages, { role: 'user', content: 'Continue, please.' }]
  const turn = { content: '', instance: '', cached: -1, finished: false, error: '' }
  const inBody = messages.length % 4 === 1
  const client = new OpenAI({ baseURL: `http://${addr}/v1`, apiKey: 'none', defaultHeaders: inBody ? {} : { 'X-Conversation': conversation } })
  let began
  const beginning = new Promise(resolve => { began = resolve })
  state.turn = (async () => {
    try {
      const stream = await client.chat.completions.create({ model, messages, max_completion_tokens: 20, stream: true, stream_options: { include_usage: true }, ...(inBody && { prompt_cache_key: conversation }) })
      for await (const chunk of stream) {
        turn.instance = chunk.system_fingerprint
        if (chunk.usage) turn.cached = chunk.usage.prompt_tokens_details.cached_tokens
        const [choice] = chunk.choices
        turn.content += choice?.delta.content ?? ''
        if (choice?.finish_reason) turn.finished = true
        if (turn.content) began()
      }
      if (turn.finished) state.messages = [...messages, { role: 'assistant', content: turn.content }]
    } catch (error) {
      turn.error = String(error.cause ?? error)
    }
    began()
    return turn
  })()
  await beginning
  return turn
}

createInterface({ input: process.stdin }).on('line', async command => {
  const [verb, conversation, ...args] = command.split(' ')
  const result = verb === 'start' ? await start(conversation, ...args) : await conversations[conversation].turn
  console.log(JSON.stringify(result))
}).on('close', () => process.exit(0))

// Package openai speaks the chat completions protocol, streamed, to OpenAI and
// to the servers that imitate it: vLLM, Ollama, llama.cpp, LM Studio, DeepSeek,
// Azure, OpenRouter, Groq, Mistral and others. It takes what they send, not only
// what the reference says, and never guesses where a guess could mix up calls.
//
// # What a request looks like
//
// The conversation is the last member of the body. With a Request.Memo a body is
// built by appending what is new since the last round; the bytes of older
// messages are reused as long as the messages are the same ones. Tools are
// encoded once for as long as their list stays the same.
//
// Content of an answer that goes back is always a string. Argument text of a
// past call that is no JSON object goes back wrapped as {"invalid_arguments":
// text}, because several servers refuse a whole request for one bad call in its
// past. Tool names that the protocol does not allow go as model.WireName and come
// back as their real names.
//
// # When an answer counts as whole
//
// An answer is whole when the provider has given a finish reason (or has ended
// the stream explicitly, in servers that give none) and no call's arguments are
// the beginning of something. Four cuts are told apart, all of code CodeStreamCut
// but the last:
//
//   - the stream ended without a finish reason, or the connection broke;
//   - the limit of output tokens was reached within a call's arguments;
//   - the finish reason promises whole calls, but a call's arguments stop in the
//     middle of JSON. Arguments that are wrong without being cut off are passed on
//     as they are: whoever executes the call refuses them and tells the model;
//   - silence is the business of the timeout wrapper in package model.
package openai

// Package mock is a scripted model: rules say what is answered to which prompt,
// and which fault comes with the answer. It stands in for a provider in tests,
// in examples and where no provider is configured.
//
// The same rules serve three ways of use:
//
//   - in process: a GPT is a model.Model, and Generate returns a whole message;
//   - RoundTripper gives an http.Client answers in the OpenAI-compatible wire
//     format (chat completions, streamed or not) without a socket;
//   - Handler and NewServer speak the same wire over TCP, where a reset is a real
//     reset and a cut stream a real cut.
//
// # What it does not do
//
// It never answers by default: a request that no rule matches is an error that
// names the prompt. It bypasses nothing: a request that a provider would refuse
// is refused, and what it answers passes through the same parsing, schema checks,
// authorisation and budgets as any other answer. It says nothing about how good a
// real model would be: constant answers suit regression tests, answers computed
// from the request suit exploration.
//
// # Determinism
//
// The same configuration and the same requests give the same bytes at the same
// times, ids included. Nothing depends on the machine's clock, on the order of a
// map, or on which of several different requests arrived first; only results of
// a Sequence and the Times of a Rule are handed out in order of arrival.
package mock

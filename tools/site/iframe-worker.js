// Browsers start no worker for pages that were opened as files. A hidden frame takes its place, so that the search works.
class FrameWorker extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    this.inner = frame.contentWindow
    this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
    this.inner.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)))
    this.ready = this.load(url)
  }

  load(url) {
    return new Promise((done, failed) => {
      const script = this.inner.document.createElement("script")
      Object.assign(script, { src: url, onload: done, onerror: failed })
      this.inner.document.body.append(script)
    })
  }

  postMessage(data) {
    this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })))
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker

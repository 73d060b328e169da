"""What the tests of pages do in a browser."""


def js(browser, code, *arguments):
    return browser.execute_script(code, *arguments)


def count(browser, selector):
    return js(browser, "return document.querySelectorAll(arguments[0]).length", selector)


def text_of(browser, selector):
    return js(browser, "return document.querySelector(arguments[0])?.textContent", selector)


def key(browser, selector, name):
    js(
        browser,
        "const e = document.querySelector(arguments[0]); e.focus();"
        "const how = { key: arguments[1], cancelable: true, bubbles: true };"
        "e.dispatchEvent(new KeyboardEvent('keydown', how))",
        selector,
        name,
    )

def main(value):
    return value
